"""Policies and rules that our own studies found dominated. A recipe names them as
`studies.zoo.gss:GSS`.
"""
