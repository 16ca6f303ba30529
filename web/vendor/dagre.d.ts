export const graphlib: { Graph: new (options?: object) => any };
export function layout(graph: any): void;
