"""How a gateway and a site that decides for itself agree: letters, each taken in once and in its turn."""
