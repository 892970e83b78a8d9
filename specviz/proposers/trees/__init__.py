"""Trees of draft tokens: fixed shapes, budgets of nodes, how they grow, how many nodes pay."""
