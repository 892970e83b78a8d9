"""What all pages share: the frame, their state and address, fields, exports, heads and notices."""
