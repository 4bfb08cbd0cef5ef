"""``python -m why_slow train.py --its --own arguments``."""

import sys

from why_slow.command import main

if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
