"""The backbone: engine, tiers, dispatcher, settlement."""
