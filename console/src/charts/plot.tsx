import { useEffect, useRef } from 'react';
import { type PlotCallbacks, type PlotContent, PlotView } from './plot-view.ts';

export interface PlotProps extends PlotContent {
  /** Null: the plot does not react to the pointer. */
  callbacks: PlotCallbacks | null;
}

/** One pane of a chart, drawn by uPlot. Its content is described by the elements around it. */
export function Plot({ callbacks, ...content }: PlotProps) {
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<PlotView>(null);
  const latest = useRef({ callbacks, content });
  latest.current = { callbacks, content };
  const isInteractive = callbacks !== null;
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const forwarded: PlotCallbacks = {
      onCursor: (time) => latest.current.callbacks?.onCursor(time),
      onWindow: (window) => latest.current.callbacks?.onWindow(window),
      onReset: () => latest.current.callbacks?.onReset(),
    };
    view.current = new PlotView(element, latest.current.content, isInteractive ? forwarded : null);
    return () => {
      view.current?.destroy();
      view.current = null;
    };
  }, [isInteractive]);
  useEffect(() => view.current?.show(content));
  return <div ref={place} className="plot" style={{ height: content.height }} aria-hidden="true" />;
}
