// The types of what build.mjs bundles, as far as our modules use them.

export function h(type: any, props: any, ...children: any[]): any;
export function render(node: any, parent: Element): void;
export const Fragment: any;
export function createRef(): { current: any };
export class Component<P = any, S = any> {
  props: P;
  state: S;
  setState(change: Partial<S>): void;
  render(props: P, state: S): any;
}
export function useState<T>(first: T | (() => T)): [T, (next: T | ((before: T) => T)) => void];
export function useRef<T>(first: T): { current: T };
export function useEffect(run: () => void | (() => void), inputs?: readonly unknown[]): void;
export function useLayoutEffect(run: () => void | (() => void), inputs?: readonly unknown[]): void;
export function useMemo<T>(make: () => T, inputs: readonly unknown[]): T;
export function useCallback<F extends Function>(f: F, inputs: readonly unknown[]): F;
export function useId(): string;
export interface Signal<T> {
  value: T;
}
export function signal<T>(first: T): Signal<T>;
export function computed<T>(make: () => T): Readonly<Signal<T>>;
export function effect(run: () => void): () => void;
export function batch<T>(run: () => T): T;
export function useSignal<T>(first: T): Signal<T>;
export function useComputed<T>(make: () => T): Readonly<Signal<T>>;
export function useSignalEffect(run: () => void): void;
export function html(strings: TemplateStringsArray, ...values: any[]): any;
