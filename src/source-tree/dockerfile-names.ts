/** The default names of a Dockerfile; the first that exists is used. */
export const dockerfileNames: readonly string[] = ["Dockerfile", "dockerfile", "Containerfile"];
