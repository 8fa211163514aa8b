# This project with its environment: the commands, dbt, and pip's Spark for its drivers, masters, workers and executors.
# compose.yaml and kubernetes.yaml have the services around it.
FROM python:3.11-slim-bookworm
RUN apt-get update \
    && apt-get install --yes --no-install-recommends make openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home --uid 1000 headwaters
USER headwaters
WORKDIR /home/headwaters/project
COPY --chown=headwaters . .
RUN make setup
ENV PATH=/home/headwaters/project/.venv/bin:$PATH
# the jars of S3 and PostgreSQL's driver: otherwise each container fetches them
RUN headwaters jars --s3 \
    && python -c "from headwaters.platform.hive_metastore import driver; driver()"
ENTRYPOINT ["headwaters"]
CMD ["--help"]
