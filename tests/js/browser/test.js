// Stands in for node:test in a browser: runs each test in turn, remembers what failed.

const queue = [];

export default function test(name, body) {
  queue.push({ name, body });
}

export async function run() {
  const failed = [];
  for (const { name, body } of queue) {
    try {
      await body();
    } catch (error) {
      failed.push(`${name}: ${error.message}`);
    }
  }
  return { count: queue.length, failed };
}
