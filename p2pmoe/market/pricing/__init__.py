"""Prices by scarcity: from paid demand and live coverage to tables and standby pay."""
