"""Sampling sessions: how a decoder is sampled, drawing and counting its samples, and the file of a session that resumes."""
