import { type RefObject, useLayoutEffect, useState } from 'react';

/** Width of an element in pixels, kept up to date; 0 before it is known. */
export function useWidth(element: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const shown = element.current;
    if (shown === null) return;
    const measure = (): void => setWidth(shown.clientWidth);
    const sized = new ResizeObserver(measure);
    measure();
    sized.observe(shown);
    return () => sized.disconnect();
  }, [element]);
  return width;
}
