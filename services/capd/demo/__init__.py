"""`router capd demo`: two wallets at two nodes that are joined by a third, over both kinds of link."""
