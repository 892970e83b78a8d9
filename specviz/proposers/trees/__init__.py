"""Trees of draft tokens: fixed shapes, budgets of nodes, how trees grow, and how many nodes pay off."""
