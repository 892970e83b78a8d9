"""Exports of the app: tables, figures for print and screen, one zip. The same input gives the same bytes."""
