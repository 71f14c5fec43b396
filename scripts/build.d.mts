export const programSources: readonly string[];
export function bundle(sources: readonly string[], outdir: string): Promise<string[]>;
