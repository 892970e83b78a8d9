"""One round: what happens between a draft token and the text?"""
