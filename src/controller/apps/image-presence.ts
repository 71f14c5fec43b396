import type { ContainerRuntime } from "../runtime/port.ts";

/**
 * Which images the engine was seen to hold. Only a hint, to spare the engine a question for each
 * App: a creation that finds the image gone says so, and `absent` is told.
 */
export class ImagePresence {
  readonly #runtime: ContainerRuntime;
  readonly #present = new Map<string, string>();
  /** Versions whose image was pulled because their policy is Always. */
  readonly #refreshed = new Set<string>();

  constructor(runtime: ContainerRuntime) {
    this.#runtime = runtime;
  }

  async ask(image: string, signal: AbortSignal): Promise<"present" | "absent"> {
    if (this.#present.has(image)) return "present";
    const info = await this.#runtime.inspectImage(image, signal);
    if (!info) return "absent";
    this.#present.set(image, info.id);
    return "present";
  }

  absent(image: string): void {
    this.#present.delete(image);
  }

  isRefreshed(version: string): boolean {
    return this.#refreshed.has(version);
  }

  refreshed(version: string): void {
    this.#refreshed.add(version);
  }

  forget(): void {
    this.#present.clear();
  }
}
