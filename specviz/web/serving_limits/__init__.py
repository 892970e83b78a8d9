"""Serving limits: what does exactness not cover?"""
