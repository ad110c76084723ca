"""`router dmq demo`: signers and aggregators in processes of their own, at a node that is killed meanwhile."""
