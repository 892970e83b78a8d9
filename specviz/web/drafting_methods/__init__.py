"""Drafting methods: who may draft?"""
