"""Figures with sliders for HTML pages; their model is one Python function, which the browser runs as well."""

from live_figures.describe import UNITS, Derived, Figure, Input, Measured, Output, Point, Printed, Source
from live_figures.measured import Measurements, Number, Start, start
from live_figures.notebook import definitions
from live_figures.render import SCRIPT, STYLE, document, frame, note, render, table
from live_figures.translate import erlang_c, javascript

__all__ = ['SCRIPT', 'STYLE', 'UNITS', 'Derived', 'Figure', 'Input', 'Measured', 'Measurements', 'Number',
           'Output', 'Point', 'Printed', 'Source', 'Start', 'definitions', 'document', 'erlang_c', 'frame',
           'javascript', 'note', 'render', 'start', 'table']
