# Kept small, because the checks of the project do not build it: they have no container engine.
FROM node:24-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci
COPY . .
RUN npm run build && npm prune --omit=dev

FROM node:24-slim
ENV NODE_ENV=production HOST=0.0.0.0 DATA_DIR=/data
WORKDIR /app
COPY --from=build /app/package.json /app/CHANGELOG.md /app/LICENSE ./
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY --from=build /app/proto ./proto
RUN mkdir /data && chown node:node /data
USER node
VOLUME /data
EXPOSE 8080 1883
CMD ["node", "--max-semi-space-size=64", "--no-allocation-site-pretenuring", "dist/cli/main.js", "serve"]
