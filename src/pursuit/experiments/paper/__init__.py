"""The whole paper as runs: which there are (`runs`), which are done (`records`), and a queue that does the rest."""
