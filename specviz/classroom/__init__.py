"""A room in which a class makes the evidence together: what is kept, what students may send, what the server draws for them."""
