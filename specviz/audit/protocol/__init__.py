"""Requests to a server of OpenAI's protocol: the endpoint, the request, and the fields of its body that change the distribution."""
