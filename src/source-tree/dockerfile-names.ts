/** What is looked for where nobody names a Dockerfile, the first that is there. */
export const dockerfileNames: readonly string[] = ["Dockerfile", "dockerfile", "Containerfile"];
