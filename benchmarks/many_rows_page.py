def page(m): return str(m)
