// The types of uPlot, as far as our modules use it.

export class uPlot {
  constructor(options: object, data: (number | null)[][], parent: HTMLElement);
  static paths: { bars: (options: object) => unknown; stepped: (options: object) => unknown };
  cursor: { idx: number | null | undefined };
  setSize(size: { width: number; height: number }): void;
  destroy(): void;
}
