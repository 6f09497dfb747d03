"""Small widgets that pages share."""
