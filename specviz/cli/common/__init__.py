"""What commands share: options, printed records, progress, and where the work is done."""
