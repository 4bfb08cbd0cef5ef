"""Processes that live and die together, on this machine or on hosts that exist only here.

A *group* (``cluster``) forks its members from a process that has imported what they need (``forkserver``);
a *member* calls the functions that it is told and answers. ``ranks`` are groups of torch.distributed,
``pslite`` those of MXNet's parameter server. ``links`` makes hosts and the network between them, and
``workers`` makes cells of a notebook importable for members; ``neighbours`` are busy programs beside an
experiment. Import the modules: ``from local_cluster import links, ranks``.
"""
