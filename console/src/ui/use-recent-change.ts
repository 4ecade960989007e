import { useEffect, useRef, useState } from 'react';

const HIGHLIGHT_MS = 2_000;

/** Whether it changed while somebody looked on, a moment ago. */
export function useRecentChange(value: string): boolean {
  const before = useRef(value);
  const [isNews, setNews] = useState(false);
  useEffect(() => {
    if (before.current === value) return;
    before.current = value;
    setNews(true);
    const timer = setTimeout(() => setNews(false), HIGHLIGHT_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return isNews;
}
