"""Tables 1 to 7 of Dumitrescu, Iosup, Sonmez, Mohamed, Epema: Virtual domain sharing in e-science (2007)."""
