"""What passes of lanes did: values, their JSON, and what they come to."""
