import type { BuildState } from "./port.ts";

type EndedBuildState = Extract<BuildState, { type: "succeeded" | "failed" }>;

/** How the last build of each App ended, until the reconciler takes it. In memory: after a restart it looks at the image. */
export class BuildResults {
  readonly #results = new Map<
    string,
    { readonly image: string; readonly state: EndedBuildState }
  >();

  set(app: string, image: string, state: EndedBuildState): void {
    this.#results.set(app, { image, state });
  }

  /** Undefined where the App's last build was of another image. */
  get(app: string, image: string): EndedBuildState | undefined {
    const result = this.#results.get(app);
    return result?.image === image ? result.state : undefined;
  }

  forget(app: string): void {
    this.#results.delete(app);
  }
}
