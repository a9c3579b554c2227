"""How a gateway and a site that decides for itself agree: messages, each taken in once and in its turn."""
