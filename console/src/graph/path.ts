export interface Point {
  x: number;
  y: number;
}

const RADIUS = 7;

/** SVG path through the points, with rounded corners. */
export function roundedPath(points: readonly Point[]): string {
  const [first, ...rest] = points;
  if (first === undefined) return '';
  let path = `M${at(first)}`;
  let before = first;
  rest.forEach((corner, index) => {
    const after = rest[index + 1];
    if (after === undefined) {
      path += `L${at(corner)}`;
      return;
    }
    const radius = Math.min(RADIUS, distance(before, corner) / 2, distance(corner, after) / 2);
    path += `L${at(towards(corner, before, radius))}Q${at(corner)} ${at(towards(corner, after, radius))}`;
    before = corner;
  });
  return path;
}

const at = ({ x, y }: Point): string => `${round(x)} ${round(y)}`;
const round = (value: number): number => Math.round(value * 10) / 10;
const distance = (a: Point, b: Point): number => Math.hypot(a.x - b.x, a.y - b.y);

function towards(from: Point, to: Point, length: number): Point {
  const total = distance(from, to);
  const part = total === 0 ? 0 : length / total;
  return { x: from.x + (to.x - from.x) * part, y: from.y + (to.y - from.y) * part };
}

/** Rendered width of a text, in pixels. */
export function textWidth(text: string, font: string): number {
  canvas ??= document.createElement('canvas').getContext('2d');
  if (canvas === null) return text.length * 7;
  canvas.font = font;
  return canvas.measureText(text).width;
}
let canvas: CanvasRenderingContext2D | null = null;
