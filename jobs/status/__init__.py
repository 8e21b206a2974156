"""`liftlock status`: what is known of a model right now, on one screen. Looks, never acts."""
