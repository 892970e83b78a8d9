"""Whole text: what did the target really decide?"""
