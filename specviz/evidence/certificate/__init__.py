"""Certificates: reports that others can check by digests, by recomputed numbers, and by redrawn samples."""
