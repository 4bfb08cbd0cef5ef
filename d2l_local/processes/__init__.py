"""Processes that live and die together, on this machine or on hosts that exist only here.

A *group* (``cluster``) forks its members from a *template* process, which has imported what they need;
a *member* calls the functions that it is told and answers. ``ranks`` are groups of torch.distributed,
``pslite`` those of MXNet's parameter server. ``links`` makes hosts and the network between them, and
``workers`` makes cells of a notebook importable for members; ``limited`` is a call with limits.
"""
