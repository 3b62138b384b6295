# The server in a container: docker build -t pursuit . && docker run -p 8000:8000 -v ./runs:/models pursuit
FROM python:3.12-slim-bookworm

ENV PIP_NO_CACHE_DIR=1 PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1
WORKDIR /app
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
# torch without CUDA is a tenth as large; servers compute on the CPU.
RUN pip install -c constraints.txt --index-url https://download.pytorch.org/whl/cpu torch \
    && pip install -c constraints.txt '.[serve,postgres,sql,excel]'

# Nobody in the container is root. Sessions are kept in /data, and all models in /models are served.
RUN useradd --create-home --uid 10001 pursuit && mkdir /data /models && chown pursuit /data
USER pursuit
ENV PURSUIT_DATABASE=sqlite:////data/sessions.sqlite
VOLUME ["/data", "/models"]
WORKDIR /data
EXPOSE 8000
HEALTHCHECK --start-period=60s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/assets/icon.svg', timeout=5)"]
ENTRYPOINT ["pursuit"]
CMD ["serve", "/models", "--host", "0.0.0.0", "--no-open"]
