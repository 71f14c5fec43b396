import type { BuildState } from "./port.ts";

type EndedBuildState = Extract<BuildState, { type: "succeeded" | "failed" }>;

/**
 * The result of the last build of each App, until the reconciler reads it. The results are in memory only: after a
 * restart of Berth the reconciler inspects the image instead.
 */
export class BuildResults {
  readonly #results = new Map<
    string,
    { readonly image: string; readonly state: EndedBuildState }
  >();

  set(app: string, image: string, state: EndedBuildState): void {
    this.#results.set(app, { image, state });
  }

  /** Returns the result of the App's last build; undefined if that build was of another image. */
  get(app: string, image: string): EndedBuildState | undefined {
    const result = this.#results.get(app);
    return result?.image === image ? result.state : undefined;
  }

  forget(app: string): void {
    this.#results.delete(app);
  }
}
