"""What all pages share: the queue, loading, links, controls, exports, furniture."""
