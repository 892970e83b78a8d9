"""Break it: what does a wrong rule look like, and after how many samples is it seen?"""
