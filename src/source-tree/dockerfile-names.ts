/** The default names of a Dockerfile; the first file that exists is used. */
export const dockerfileNames: readonly string[] = ["Dockerfile", "dockerfile", "Containerfile"];
