"""Where samples come from: sessions that draw them, files of any server, and the redraw that checks a certificate."""
