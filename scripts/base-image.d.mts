export const HELLO_IMAGE: string;
export const HELLO_PORT: number;
export class RootFs {
  file(name: string, content: string | Buffer, mode?: number): this;
  link(name: string, target: string): this;
  folder(name: string, mode?: number): this;
  program(file: string, name: string): this;
  tree(folder: string, name: string): this;
  tar(): Buffer;
}
export function busyboxRoot(): RootFs | undefined;
export function nodeRoot(): RootFs;
export function hasImage(host: string, reference: string): Promise<boolean>;
export function importImage(
  host: string,
  reference: string,
  fs: RootFs,
  changes: readonly string[],
): Promise<void>;
export function ensureHelloImage(host: string): Promise<boolean>;
