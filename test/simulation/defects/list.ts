export interface Defect {
  title: string;
  changes: { file: string; from: string; to: string }[];
}
export const defects: Record<string, Defect> = {};
